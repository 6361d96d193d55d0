"""Programs that take part in a rehearsal over HTTP: an analyst and her participants, who use the pages as people do."""
