"""PowerProfiles: finding and choosing (lookup, matching), correcting, writing and collecting (retention) them."""
