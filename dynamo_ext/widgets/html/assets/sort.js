/* Sorts the candidates where no kernel is; the values come from the record, not from the cells. */
function dxSort(button, title) {
  const keys = JSON.parse(document.getElementById('dx-order').textContent)[title];
  const table = button.closest('table'), head = button.closest('th');
  const falls = head.getAttribute('aria-sort') === 'ascending' ? true
    : head.getAttribute('aria-sort') === 'descending' ? false : keys.falls;
  const groups = {};
  let name = '';
  for (const row of table.tBodies[0].rows) {
    if (!row.classList.contains('dx-because')) name = row.cells[0].querySelector('b').textContent;
    (groups[name] = groups[name] || []).push(row);
  }
  for (const each of falls ? keys.down : keys.up)
    for (const row of groups[each] || []) table.tBodies[0].appendChild(row);
  for (const other of table.tHead.rows[0].cells) {
    other.setAttribute('aria-sort', 'none');
    const inner = other.querySelector('button');
    inner.textContent = inner.textContent.replace(/ [▲▼]$/, '');
  }
  head.setAttribute('aria-sort', falls ? 'descending' : 'ascending');
  button.textContent += falls ? ' ▼' : ' ▲';
}
