"""Looking at stacks while a request is overdue or a window is open."""
