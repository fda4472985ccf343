"""Canaries: small recorded histories, one for each class of violation, which a session's judge must convict."""
