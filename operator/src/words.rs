//! Errors of the Kubernetes client in words for people.

use std::error::Error;

/// What the API server said, without what the client wraps around it; for other errors the message and the last cause
/// behind it, which is the one that helps.
#[must_use]
pub fn of(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        let said = if status.message.is_empty() {
            &status.reason
        } else {
            &status.message
        };
        return format!("{said} ({})", status.code);
    }
    let mut last = None;
    let mut source = error.source();
    while let Some(cause) = source {
        last = Some(cause.to_string());
        source = cause.source();
    }
    let words = error.to_string();
    match last {
        Some(cause) if !words.contains(&cause) => format!("{words}: {cause}"),
        Some(_) | None => words,
    }
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

    use super::*;

    #[test]
    fn the_api_servers_words_come_without_wrapping() {
        let status = Status::failure("pods \"a\" is forbidden", "Forbidden").with_code(403);
        assert_eq!(of(&kube::Error::Api(status.boxed())), "pods \"a\" is forbidden (403)");
    }
}
