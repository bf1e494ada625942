"""Token masks by the xgrammar library: output languages in, legal next tokens out."""
