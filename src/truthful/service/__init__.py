"""The service: a study on the web, from an invitation to a payment that anyone can check.

Pages do no arithmetic: they read a form, call a stage of the library or a move of the store, and show a template.
"""
