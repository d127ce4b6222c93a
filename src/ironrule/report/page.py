"""The page that a report is: one HTML file with its style inside, which needs no network and no script, and prints."""

from __future__ import annotations

from html import escape

POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'"

STYLE = """
:root { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: #fff; color: #1a1a1a; font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto,
  "Noto Sans", "DejaVu Sans", sans-serif; overflow-wrap: break-word; }
main { max-width: 50rem; margin: 0 auto; padding: 1.5rem 1.25rem 3rem; }
h1 { font-size: 1.7rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1.2rem; margin: 2rem 0 0.5rem; }
p, ul, ol, table { margin: 0.5rem 0; }
.small { color: #4d4d4d; font-size: 0.9rem; }
.badge { display: inline-block; padding: 0.15rem 0.6rem; font-weight: 600; border: 2px solid; border-radius: 4px;
  print-color-adjust: exact; -webkit-print-color-adjust: exact; }
.proven { background: #0b5394; border-color: #0b5394; color: #fff; }
.unrefuted { color: #8a5a00; border-style: dashed; }
.refuted { color: #a1260d; border-style: dashed; }
.answer { border: 1px solid #767676; border-radius: 6px; padding: 0.75rem 1rem; margin: 1rem 0; }
.reasons { padding-left: 1.25rem; }
.reasons li { margin: 0.3rem 0; }
table { border-collapse: collapse; width: 100%; font-size: 0.95rem; }
.facts { table-layout: fixed; }
.facts th, .facts td { overflow-wrap: anywhere; }
th, td { text-align: left; vertical-align: top; padding: 0.3rem 0.75rem 0.3rem 0; border-bottom: 1px solid #ccc; }
th[scope=row] { width: 38%; font-weight: 600; }
code, pre { font: 0.9em/1.45 ui-monospace, "SFMono-Regular", Menlo, "DejaVu Sans Mono", monospace; }
code { overflow-wrap: anywhere; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; background: #f4f4f4; border: 1px solid #ccc; padding: 0.6rem; }
a { color: #0b5394; }
.wide td:first-child { white-space: nowrap; }
.picture, .wide { margin: 1rem 0; overflow-x: auto; }
.picture svg { min-width: 34rem; }
.letter + .letter { border-top: 2px solid #767676; margin-top: 3rem; padding-top: 2rem; }
footer { margin-top: 2.5rem; border-top: 1px solid #ccc; padding-top: 0.5rem; }
@page { size: A4; margin: 18mm 16mm; }
@media print {
  body { font-size: 10.5pt; }
  main { max-width: none; padding: 0; }
  h2 { break-after: avoid; }
  li, tr, pre, .answer, .picture { break-inside: avoid; }
  .picture, .wide { overflow: visible; }
  .picture svg { min-width: 0; max-height: 245mm; }
  .letter + .letter { break-before: page; border: 0; margin: 0; padding: 0; }
  a { color: inherit; text-decoration: none; }
}
"""


def page(title: str, body: str) -> str:
    """A whole page; the body is HTML, the title is not."""
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{escape(POLICY)}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        "</body>\n</html>\n"
    )
