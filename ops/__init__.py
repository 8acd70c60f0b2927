"""memline's operations as code; what of it is Python runs from a checkout, and no part of memline imports it."""
