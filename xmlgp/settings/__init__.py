"""How settings are declared, checked and described; each model declares its own."""
