"""The verbs about a PowerBudget: what its boards share now, and what they would share."""
