//! Small predicates that serde asks for by name.

/// Leaves out a field that says nothing: an absent field and its default mean the same.
pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A schema default would make the API server write the field into every object; the Rust default is enough.
pub(crate) fn without_default(schema: &mut schemars::Schema) {
    schema.remove("default");
}
