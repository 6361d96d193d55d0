"""The service: a study on the web, from an invitation to a payment that anyone can check.

Pages do no arithmetic: they read a form, call the library or the store, and render a template.
"""
