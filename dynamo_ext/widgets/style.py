"""The one style sheet: quiet, in the colours of the notebook's theme, and safe to lose.

Everything a reader needs is in the markup; a front end that drops ``<style>`` loses only looks.
Tints are translucent so that the theme's own text colour keeps its contrast on them, light or
dark.
"""

from __future__ import annotations

from dynamo_ext.widgets.layout import BOX_HEIGHT, BOX_WIDTH
from dynamo_ext.widgets.markup import Html

# A report emits static html first and the widget second. Where the widget lives the html would
# say everything twice, and where it cannot live (kernel gone, untrusted) it is an error message
# under a readable report: each rule hides the one that is not wanted.
_ONE_OF_TWO = """
.jp-OutputArea-child:has(.dx-static):has(+ .jp-OutputArea-child .dx-live) { display: none; }
.jp-OutputArea-child:has(.dx-static)
  + .jp-OutputArea-child:has(> .jp-OutputArea-output.jupyter-widgets):not(:has(.dx-live)) {
  display: none; }
"""

_BASE = """
.dx { --dx-text: var(--jp-content-font-color1, currentColor);
  --dx-quiet: var(--jp-content-font-color2, currentColor);
  --dx-line: var(--jp-border-color2, #8884); --dx-faint: var(--jp-layout-color2, #8881);
  color: var(--dx-text); font-family: var(--jp-ui-font-family, system-ui, sans-serif);
  font-size: 13px; line-height: 1.5; max-width: 100%; }
.dx p { margin: 4px 0 8px; }
.dx h4 { font-size: 13px; font-weight: 600; margin: 14px 0 4px; color: inherit; }
.dx.dx.dx code, .dx.dx.dx pre { font-family: var(--jp-code-font-family, ui-monospace, monospace);
  font-size: 12px; color: inherit; background: none; padding: 0; overflow-wrap: anywhere; }
.dx.dx pre { margin: 0; padding: 8px 10px; overflow: auto; max-height: 480px; white-space: pre;
  line-height: 1.45; border: 1px solid var(--dx-line); overflow-wrap: normal; }
.dx a { color: var(--jp-content-link-color, inherit); }
.dx .dx-gap { display: none; }
.dx.dx thead { border: 0; }
.dx summary { cursor: pointer; padding: 3px 0; }
.dx details > :not(summary) { margin-left: 14px; }
.dx-static > details > summary { border-top: 1px solid var(--dx-line);
  padding: 6px 0; }
.dx-static > details[open] > summary { margin-bottom: 4px; }
.dx-wide { overflow-x: auto; max-width: 100%; margin: 0 0 8px; }
.dx .dx-wide table { border-collapse: collapse; margin: 0; font-size: 12.5px; border: 0;
  table-layout: auto; color: inherit; }
.dx .dx-wide th, .dx .dx-wide td { padding: 4px 14px 4px 0; border: 0;
  border-bottom: 1px solid var(--dx-line); white-space: normal; overflow-wrap: break-word;
  max-width: 460px; font-variant-numeric: tabular-nums; }
.dx .dx-wide td[style*="align:right"] { white-space: nowrap; }
.dx .dx-wide td > b { display: inline-block; max-width: 24ch; overflow-wrap: break-word; }
.dx .dx-wide td:has(> code:only-child) { min-width: 14ch; }
.dx .dx-wide th { font-weight: 500; font-size: 12px; color: var(--dx-quiet); white-space: nowrap; }
.dx .dx-wide tbody tr, .dx .dx-wide tbody tr:nth-child(even) { background: none; }
.dx .dx-wide tbody tr:hover { background: var(--dx-faint); }
.dx .dx-wide tbody tr:last-child td { border-bottom: 0; }
.dx summary > b { font-weight: 600; }
.dx ul { margin: 0; padding-left: 16px; }
.dx.dx li { margin: 0; line-height: 1.5; overflow-wrap: anywhere; }
.dx .dx-quiet { color: var(--dx-quiet); }
.dx .dx-meter { color: #4285f4; letter-spacing: -1px; font-size: 10px; white-space: nowrap; }
"""

_SUMMARY = """
.dx .dx-banner { border: 1px solid #d93025; border-left-width: 4px; padding: 8px 12px;
  margin: 4px 0 10px; background: rgba(217,48,37,.08); }
.dx .dx-headline { font-size: 14px; margin: 2px 0 10px; max-width: 80ch; }
.dx .dx-evidence { margin: -6px 0 8px; max-width: 80ch; font-size: 12.5px; }
.dx .dx-then { margin: 0 0 2px; font-weight: 500; }
.dx ol { margin: 0 0 10px; padding-left: 22px; max-width: 90ch; }
.dx .dx-status { font-weight: 600; padding: 1px 8px; margin-right: 8px; border: 1px solid;
  border-radius: 10px; font-size: 12px; white-space: nowrap; }
.dx .dx-good { border-color: #2e9e5b; background: rgba(46,158,91,.14); }
.dx .dx-part { border-color: #b0763a; background: rgba(219,154,4,.16); }
.dx .dx-bad { border-color: #d93025; background: rgba(217,48,37,.12); }
.dx .dx-counts td { font-size: 17px; border-bottom: 0; padding-right: 18px; white-space: nowrap; }
.dx .dx-counts th { border-bottom: 0; padding-bottom: 0; padding-right: 18px; }
.dx .dx-counts tbody tr:hover { background: none; }
"""

_CODE = """
.dx .dx-code td, .dx .dx-code tbody tr td { padding: 0 10px 0 6px; border: 0; max-width: none;
  line-height: 1.6; }
.dx .dx-code td:first-child { color: var(--dx-quiet); font-variant-numeric: tabular-nums; }
.dx .dx-code td:nth-child(2) { white-space: nowrap; font-size: 12px; }
.dx .dx-code code { white-space: pre-wrap; }
.dx .dx-breaks td:nth-child(n+3) { min-width: 170px; }
.dx .dx-note { font-size: 12px; }
"""

# Six hues at 3:1 or better against white and against black, for the rim; the tint is the same
# hue, thin.
_HUES = ("#4285f4", "#2e9e5b", "#9a67ea", "#1895a3", "#d9538f", "#b0763a")
_EAGER = "#80868b"


def _tints() -> str:
    """Write the rules that colour what an engine or a graph ran, in html and in SVG."""
    rules = []
    for name, hue in [*((f"dx-h{i}", hue) for i, hue in enumerate(_HUES)), ("dx-eager", _EAGER)]:
        rules += [
            f".dx .dx-code tr.{name} td:nth-child(2) {{ box-shadow: inset 3px 0 {hue}; }}",
            f".dx .dx-code tr.{name} td:nth-child(n+2) {{ background: {hue}22; }}",
            f".dx .dx-key.{name}, .dx .dx-share.{name} {{",
            f"background: {hue}33; border: 1px solid {hue}; }}",
            f".dx g.{name} rect {{ fill: {hue}2b; stroke: {hue}; }}",
        ]
    return "\n".join(rules)


_DRAWING = """
.dx .dx-key { display: inline-block; padding: 0 7px; margin: 0 6px 4px 0; border-radius: 3px;
  font-size: 12px; }
.dx .dx-bar { display: flex; max-width: 720px; margin: 2px 0 10px; }
.dx .dx-share { padding: 1px 6px; overflow: hidden; white-space: nowrap; min-width: 0;
  text-overflow: ellipsis; font-size: 12px; box-sizing: border-box; }
.dx .dx-canvas { overflow: auto; min-height: 190px; max-height: 520px;
  border: 1px solid var(--dx-line); }
.dx .dx-canvas svg { display: block; }
.dx .dx-canvas text { font: 11px var(--jp-code-font-family, ui-monospace, monospace);
  fill: var(--dx-text); }
.dx .dx-canvas text.dx-quiet { fill: var(--dx-quiet); }
.dx .dx-canvas path { fill: none; stroke: var(--dx-quiet); stroke-opacity: .55; }
.dx .dx-canvas rect { fill: var(--jp-layout-color1, transparent); stroke: var(--dx-quiet); }
.dx .dx-canvas g.dx-edge-of rect { fill: var(--dx-faint); stroke-dasharray: 3 2; }
.dx .dx-canvas g.dx-hit rect { stroke-width: 2.5; }
.dx .dx-nodes { position: relative; margin: 0 auto; padding-bottom: 8px; zoom: var(--dx-zoom, 1); }
.dx .dx-nodes button { position: absolute; width: BOX_WIDTHpx; height: BOX_HEIGHTpx; padding: 0;
  border: 0; border-radius: 3px; background: none; cursor: pointer; text-align: left; }
.dx .dx-nodes button:focus { outline: 2px solid #4285f4; outline-offset: 1px; z-index: 2; }
.dx .dx-nodes button:focus::after { content: attr(aria-label); position: absolute; left: 0;
  top: calc(100% + 4px); width: max-content; max-width: 420px; padding: 6px 10px;
  zoom: calc(1 / var(--dx-zoom, 1));
  white-space: pre-wrap; overflow-wrap: anywhere; color: var(--dx-text);
  font: 12px/1.5 var(--jp-code-font-family, ui-monospace, monospace);
  background: var(--jp-layout-color1, Canvas); border: 1px solid #4285f4; border-radius: 3px; }
.dx .dx-bytes td { width: 50%; max-width: 0; padding: 0 8px 0 0; border: 0; }
.dx .dx-wide table.dx-bytes { width: 100%; table-layout: fixed; }
"""

# A first column that stays while the rest scrolls needs a ground of its own.
_COMPARE = """
.dx .dx-wide table.dx-compare th, .dx .dx-wide table.dx-compare td { padding: 4px 12px 4px 0; }
.dx .dx-compare th:first-child, .dx .dx-compare td:first-child { position: sticky; left: 0;
  background: var(--jp-layout-color0, Canvas); z-index: 1; }
.dx .dx-wide .dx-compare tbody th { font-size: 12.5px; color: var(--dx-text);
  white-space: normal; min-width: 60px; max-width: 180px; overflow-wrap: break-word; }
.dx .dx-compare td.dx-won { font-weight: 600; }
.dx .dx-wide .dx-compare tbody tr:last-child th { border-bottom: 0; }
.dx .dx-compare .dx-word { white-space: nowrap; padding: 1px 7px; border-radius: 8px; }
.dx .dx-wide:has(> .dx-compare) { container-type: inline-size; }
.dx .dx-compare .dx-why > div { max-width: 62ch; max-width: clamp(20ch, 100cqi - 300px, 62ch); }
.dx .dx-compare tr:has(+ .dx-because) > * { border-bottom: 0; }
.dx .dx-compare tr.dx-because td { padding-top: 0; }
.dx .dx-compare tr.dx-sum > * { border-top: 2px solid var(--dx-line); font-weight: 600; }
.dx button.dx-sort-by { font: inherit; color: inherit; background: none; border: 0; padding: 0;
  cursor: pointer; text-decoration: underline dotted; text-underline-offset: 3px; }
.dx .dx-wide:focus-visible, .dx button.dx-sort-by:focus-visible { outline: 2px solid #4285f4;
  outline-offset: 1px; }
.dx svg.dx-chart { display: block; width: 100%; min-width: 420px; max-width: 720px;
  height: auto; margin: 4px 0 8px; }
.dx img { max-width: 100%; height: auto; }
"""

# ipywidgets gives an HTML widget one line's height, a pane of a Tab a padding of its own, and as
# flex items they grow with a wide table, which would be cut off rather than scroll.
_LIVE = """
.dx-live .widget-html-content { line-height: 1.5; min-width: 0; width: 100%; }
.dx-live .widget-html, .dx-live .widget-vbox { min-width: 0; max-width: 100%; }
.dx-live .jupyter-widget-tab-contents, .dx-live .widget-tab-contents { padding: 10px 12px; }
.dx-live .jp-RenderedHTMLCommon { padding: 0; }
.dx-live .jupyter-widget-tab > .lm-TabBar .lm-TabBar-tab { flex: 0 0 auto; min-width: 0;
  max-width: none; padding: 0 9px; }
.dx-live .jupyter-widget-tab > .lm-TabBar .lm-TabBar-content { flex-wrap: wrap; }
.dx-live .jupyter-widgets-disconnected::before { content: none; }
.dx-live.jupyter-widgets-disconnected::before { font: 12px/1.5 var(--jp-ui-font-family, sans-serif);
  color: var(--jp-content-font-color2, currentColor); padding: 2px 0;
  content: "Its kernel has gone: what is drawn stays, for the rest run the cell again."; }
.dx-live .dx .dx-compare th:first-child, .dx-live .dx .dx-compare td:first-child {
  background: var(--jp-layout-color1, Canvas); }
"""

_SIZED = _DRAWING.replace("BOX_WIDTH", str(BOX_WIDTH)).replace("BOX_HEIGHT", str(BOX_HEIGHT))
_PARTS = (_ONE_OF_TWO, _BASE, _SUMMARY, _CODE, _SIZED, _tints(), _COMPARE, _LIVE)
STYLE = Html(f"<style>{''.join(_PARTS)}</style>")


def hue(index: int) -> str:
    """Name the class that tints the ``index``-th graph or engine."""
    return f"dx-h{index % len(_HUES)}"
