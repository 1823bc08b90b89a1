//! The dashboard and the alert rules in `contrib`.

use crate::client::Fixture;
use crate::web::{get, with_page};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Returns the metrics in an expression, each with the labels that it selects by.
fn metrics_in(text: &str) -> Vec<(String, Vec<String>)> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    let metric = |rest: &str| {
        let name: String = rest.chars().take_while(|letter| is_part(*letter)).collect();
        let labels = rest[name.len()..]
            .strip_prefix('{')
            .and_then(|rest| rest.split_once('}'));
        let labels = labels.map_or("", |(labels, _)| labels).split(',');
        let labels = labels.filter_map(|label| Some(label.split_once('=')?.0.trim().to_owned()));
        (name, labels.collect())
    };
    let places = text.match_indices("alluvium_");
    places.map(|(place, _)| metric(&text[place..])).collect()
}

#[test]
fn the_dashboard_and_the_alerts_use_metrics_that_there_are() {
    let fixture = Fixture::with(with_page());
    fixture.client().ask("SET key value");
    let served = get(&fixture, "/metrics").is(200).text();
    let mut there: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (name, labels) in served
        .lines()
        .filter(|line| !line.starts_with('#'))
        .flat_map(metrics_in)
    {
        there.entry(name).or_default().extend(labels);
    }
    let dashboard = include_str!("../../../../contrib/grafana/alluvium.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.filter_map(|panel| panel["targets"].as_array()).flatten();
    let mut expressions: Vec<String> = targets
        .map(|target| target["expr"].as_str().unwrap().to_owned())
        .collect();
    let rules = include_str!("../../../../contrib/alerts.yml");
    let rules = rules
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "));
    expressions.extend(rules.map(str::to_owned));
    assert!(expressions.len() > 30);
    for expression in expressions {
        let used = metrics_in(&expression);
        assert!(!used.is_empty(), "{expression}");
        for (name, labels) in used {
            let known = there
                .get(&name)
                .unwrap_or_else(|| panic!("no {name}: {expression}"));
            // Prometheus itself adds the instance.
            let unknown = labels
                .iter()
                .find(|label| *label != "instance" && !known.contains(*label));
            assert_eq!(unknown, None, "{expression}");
        }
    }
}
