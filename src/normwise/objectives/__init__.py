"""Pure functions of tensors: scores, InfoNCE, focal weights, temperature; and one loss module that uses them."""
