"""The version, in one place: packaging, records and the command line read it here."""

__version__ = "0.2.0"
