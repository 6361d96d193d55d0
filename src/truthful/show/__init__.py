"""Views of records for terminals and notebooks. Nothing is computed here but the width of a bar."""
