"""Front doors of the output constraints: GBNF, regex, choice and JSON Schema, without any grammar library."""
