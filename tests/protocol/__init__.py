"""The wire: bytes in, values out, without any I/O."""
