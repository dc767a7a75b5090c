"""`penstock doctor`: what of this installation works, row by row, and what to do about the rest."""
