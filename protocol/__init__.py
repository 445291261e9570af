"""The wire: framing, envelopes, error codes and the method contract. Wholly pure: bytes in, values out."""
