"""The child process that does the heavy work: summaries, spool, upload, control stream."""
