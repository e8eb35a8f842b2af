"""Views: one module per noun, thin: translate the request, call one function of the core, show its outcome."""
