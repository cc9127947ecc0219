//! What `quorate dev` begins with if nothing else is asked for.

use crate::load::schedule::Attributes;
use quorate_shared::names::RegionName;

/// Requests of the sample traffic, all regions together, in a second: what `write-api` allows a
/// tenant, nearly.
pub const RATE: f64 = 95.0;

/// What the sample traffic's requests say of themselves.
pub fn attributes() -> Attributes {
    [("route", "write"), ("tenant", "demo")].map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The sample policy set, for these regions.
pub fn policies(regions: &[RegionName]) -> String {
    let regions: String = regions.iter().map(|region| format!("  {region}: {{}}\n")).collect();
    format!("regions:\n{regions}{POLICIES}")
}

const POLICIES: &str = "\
policies:
  - name: write-api
    match: {route: write}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 100/s, burst: 200}
    overrides:
      - subject: {tenant: acme}
        limit: {rate: 500/s, burst: 1000}
    on-store-failure: closed
  - name: export
    match: {route: export}
    per: [tenant]
    limit: {algorithm: token-bucket, rate: 30/min, burst: 10}
    on-store-failure: closed
";

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_coordinator::documents;

    #[test]
    fn the_sample_has_no_mistakes() {
        let regions: Vec<RegionName> = ["us", "eu"].iter().map(|n| n.parse().expect("a name")).collect();
        let text = policies(&regions);
        let (set, warnings) = documents::policy_set(text.as_bytes()).unwrap_or_else(|m| panic!("{m:?}"));
        assert_eq!((set.regions.len(), set.policies.len()), (2, 2));
        assert!(warnings.is_empty(), "{warnings:?}");
    }
}
