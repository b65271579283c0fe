"""One page about a run, as HTML that needs nothing beside it: no script, no other file, no network.

- `facts`: what is known of the run
- `page`: the page, from `page.html.j2`
- `plots`: its curves, as SVG
- `template`: how its templates are opened, so that nothing in them can run
- `highest_paid`: another page, of the attempts of a round that its reward pays most, from `highest_paid.html.j2`
"""
