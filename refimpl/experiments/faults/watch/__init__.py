"""Jobs under watch from outside: their processes, their moments, their end for certain; many trials in one job."""
