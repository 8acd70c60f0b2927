"""How the index comes to reflect the committed set, and stays so."""
