"""One page about a run, as HTML that needs nothing beside it: no script, no other file, no network.

- `facts`: what is known of the run
- `page`: the page, from `page.html.j2`
- `choice`: why one validated policy was chosen, and whether another may be as good
- `plots`: its curves, as SVG
"""
