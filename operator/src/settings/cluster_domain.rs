//! The domain of the Kubernetes cluster, from a Pod's resolver configuration.

/// What nearly every Kubernetes cluster is called.
pub(super) const DEFAULT: &str = "cluster.local";

/// kubelet writes `search <namespace>.svc.<domain> svc.<domain> <domain> ...`.
pub(super) fn from_resolv_conf(text: &str) -> Option<String> {
    let mut words = text
        .lines()
        .filter_map(|line| line.strip_prefix("search"))
        .flat_map(str::split_whitespace);
    let domain = words.find_map(|word| word.strip_prefix("svc."))?;
    let domain = domain.trim_end_matches('.');
    (!domain.is_empty()).then(|| domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_what_follows_svc_in_the_search_list() {
        let text = "nameserver 10.96.0.10\nsearch ns.svc.corp.example svc.corp.example corp.example\noptions ndots:5\n";
        assert_eq!(from_resolv_conf(text).as_deref(), Some("corp.example"));
        assert_eq!(from_resolv_conf("search a.svc.b. svc.b. b.\n").as_deref(), Some("b"));
    }

    #[test]
    fn a_machine_outside_of_kubernetes_has_none() {
        assert_eq!(from_resolv_conf("nameserver 1.1.1.1\nsearch lan\n"), None);
        assert_eq!(from_resolv_conf("search svc.\n"), None);
    }
}
