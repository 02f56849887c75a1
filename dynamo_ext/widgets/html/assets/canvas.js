/* Zooms and pans a drawing. An HTML widget runs no script that is put into it, but the handlers of
   its elements: this is one, run once the pointer or the focus comes. The wheel alone scrolls the
   page. Nothing moves by itself, so that there is no motion to reduce. */
(box => {
  box.onpointerenter = null;
  const canvas = box.querySelector('.dx-canvas'), select = box.querySelector('select');
  const nodes = canvas.querySelector('.dx-nodes'), svg = nodes.querySelector('svg');
  /* What is drawn next in the same widget is zoomed alike. */
  const place = box.closest('.widget-html') || box, free = select.options[0];
  let zoom = +getComputedStyle(box).getPropertyValue('--dx-zoom') || 1, said = 1, from = null;
  const say = () => {
    said = zoom;
    free.hidden = false;
    free.text = Math.round(zoom * 100) + ' %';
    select.selectedIndex = 0;
  };
  if (zoom !== 1) say();
  /* What is at x, y in the window stays there. */
  const to = (wanted, x, y) => {
    zoom = Math.min(Math.max(wanted, .05), 4);
    const before = nodes.getBoundingClientRect();
    place.style.setProperty('--dx-zoom', zoom);
    const after = nodes.getBoundingClientRect();
    canvas.scrollLeft += after.left + (x - before.left) * after.width / before.width - x;
    canvas.scrollTop += after.top + (y - before.top) * after.height / before.height - y;
  };
  select.onchange = () => {
    const seen = canvas.getBoundingClientRect();
    const [width, height] = [svg.width, svg.height].map(each => each.baseVal.value);
    const room = parseFloat(getComputedStyle(canvas).maxHeight);
    const fit = Math.min(canvas.clientWidth / width, room / (height + 12), 1);
    to(select.selectedIndex ? +select.value || fit : said, seen.left + canvas.clientWidth / 2, seen.top);
  };
  canvas.addEventListener('wheel', event => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    to(zoom * Math.exp(-Math.min(Math.max(event.deltaY, -25), 25) / 100), event.clientX, event.clientY);
    say();
  }, {passive: false});
  canvas.onpointerdown = event => {
    /* Fingers scroll by themselves, and the rim of the canvas has its scroll bars. */
    if (event.button || event.pointerType === 'touch' || event.target === canvas) return;
    from = [event.clientX, event.clientY, canvas.scrollLeft, canvas.scrollTop];
  };
  canvas.onpointermove = event => {
    if (!from || !(event.buttons & 1)) return;
    const [x, y, left, top] = from;
    if (!canvas.hasPointerCapture(event.pointerId)) {
      if (Math.hypot(event.clientX - x, event.clientY - y) < 4) return;
      /* The click that ends it is then the canvas's, and opens nothing. */
      canvas.setPointerCapture(event.pointerId);
    }
    canvas.scrollLeft = left + x - event.clientX;
    canvas.scrollTop = top + y - event.clientY;
  };
  canvas.onpointerup = canvas.onpointercancel = () => { from = null; };
})
