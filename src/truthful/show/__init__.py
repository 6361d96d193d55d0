"""Records as people read them in a terminal. Nothing is computed here but the width of a bar."""
