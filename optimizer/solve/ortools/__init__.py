"""OR-Tools behind two functions: linear programs (``glop``) and integer programs (``cp_sat``)."""
