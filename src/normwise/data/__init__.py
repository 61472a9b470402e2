"""Reading: pairs by named columns, judgements, corpora, built-in sets, hygiene."""
