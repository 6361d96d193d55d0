"""Charts, as SVG or PNG by the file's name. matplotlib is loaded only when one is drawn."""
