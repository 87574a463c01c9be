"""The define-by-run loop IR: a loop body is a Python callable over `ops.*`; ask it a question by handing it another handler."""
