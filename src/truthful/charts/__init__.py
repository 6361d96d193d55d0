"""Charts, as SVG or PNG by the file's name. Nothing of matplotlib is loaded before one is drawn."""
