"""Pages of samples before and after a transform: forebay.show() and `forebay show`."""
