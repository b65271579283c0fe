"""What people read of runs: in the terminal, as a page and as the card of a model. This room imports nothing by itself.

- `terminal`, `bars`: text from anywhere, printed and logged safely; the open stages of a run
- `model_card`: what a version of a policy tells about itself, and the texts beside it
- `page`, `plots`: one page about a run, as HTML that needs nothing beside it, with its curves as SVG
- `template`: how templates are opened, so that nothing in them can run
"""
