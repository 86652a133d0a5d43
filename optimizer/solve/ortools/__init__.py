"""OR-Tools behind two functions: linear programs (``glop``) and whole ones (``cp_sat``)."""
