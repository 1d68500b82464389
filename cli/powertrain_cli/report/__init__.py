"""The report of a job: a data document, the page that draws it, and where its data comes from."""
