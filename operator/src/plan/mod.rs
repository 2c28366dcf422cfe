//! Pure: facts in, one plan out.
