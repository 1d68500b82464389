"""PowerBudgets: the cap of a moment, how boards count against it, what each should get, and the next safe write."""
