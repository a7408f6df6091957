//! The configuration file.

use crate::ShareError;
use crate::config::{InterfaceConfig, KeySource, RadioConfig, ShareConfig, WithoutKernel};
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use toml::Spanned;
use yuzuri_policy::{Aggregation, Objective, PolicyConfig, PolicyName, TerminalName};

/// A validated configuration file. Settings that it omits keep their defaults.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfigFile {
    /// The policy that computes the bounds.
    pub policy: Option<PolicyName>,
    /// The objective of the policy `yuzuri`.
    pub objective: Option<Objective>,
    /// Path capacity for the policies that divide it by the number of members, Mbit/s; above 0.
    pub capacity_mbps: Option<Spanned<f64>>,
    /// The key file.
    pub key_file: Option<PathBuf>,
    /// A passphrase instead of a key file.
    pub passphrase: Option<Spanned<String>>,
    /// File of a second key that is accepted but never used for sending.
    pub accept_key_file: Option<Spanned<PathBuf>>,
    /// A passphrase instead of that file.
    pub accept_passphrase: Option<Spanned<String>>,
    /// File of the notices that carry the next group key to the members.
    pub notice_file: Option<PathBuf>,
    /// Whether to join groups without a key.
    pub keyless: Option<Spanned<bool>>,
    /// Name of the congestion control.
    pub control: Option<String>,
    /// UDP port of the group messages.
    pub port: Option<Spanned<u16>>,
    /// Rank in the leader election; lower is preferred.
    pub rank: Option<u8>,
    /// The name under which the other members show this terminal.
    pub terminal_name: Option<Spanned<String>>,
    /// The rendezvous relay for all interfaces.
    pub rendezvous: Option<SocketAddr>,
    /// What to do if the congestion control cannot be registered.
    pub without_kernel: Option<WithoutKernel>,
    /// The HTTP address of the metrics.
    pub metrics: Option<SocketAddr>,
    /// Whether the metrics may be reachable from other hosts.
    pub metrics_public: bool,
    /// The interfaces to use.
    pub interface: Vec<FileInterface>,
}

/// The settings of one interface.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileInterface {
    /// The interface name.
    pub name: Spanned<String>,
    /// The group name.
    pub group: Option<String>,
    /// The rendezvous relay.
    pub rendezvous: Option<SocketAddr>,
    /// PHY rate of the radio, Mbit/s.
    pub rate_mbps: Option<Spanned<f64>>,
    /// Frame aggregation of the radio: none, ht or vht.
    pub aggregation: Option<Spanned<String>>,
}

/// Reads and validates a configuration file.
///
/// # Errors
/// If the file cannot be read or is invalid, as `FILE:LINE:COLUMN: what`.
pub fn read_config(file: &Path) -> Result<ConfigFile, ShareError> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| ShareError::Config(format!("reading the configuration {}: {e}", file.display())))?;
    parse(&text).map_err(|(at, what)| config_error(file, &text, at, &what))
}

/// An error in a file, with its line and column.
pub(crate) fn config_error(file: &Path, text: &str, at: Option<usize>, what: &str) -> ShareError {
    let before = &text[..at.unwrap_or(0).min(text.len())];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    let what = what.trim().replace('\n', "; ");
    ShareError::Config(match at {
        Some(_) => format!("{}:{line}:{column}: {what}", file.display()),
        None => format!("{}: {what}", file.display()),
    })
}

type Problem = (Option<usize>, String);

fn parse(text: &str) -> Result<ConfigFile, Problem> {
    let config: ConfigFile =
        toml::from_str(text).map_err(|e| (e.span().map(|span| span.start), e.message().to_owned()))?;
    let wrong = |at: usize, what: String| Err((Some(at), what));
    if let Some(capacity) =
        config.capacity_mbps.as_ref().filter(|c| !(0.001..=100_000.0).contains(c.get_ref()))
    {
        return wrong(
            capacity.span().start,
            format!("capacity_mbps: {} is not from 0.001 to 100000", capacity.get_ref()),
        );
    }
    if let Some(port) = config.port.as_ref().filter(|p| *p.get_ref() == 0) {
        return wrong(port.span().start, "port: 0 is not a port".into());
    }
    if let Some(name) = &config.terminal_name
        && let Err(error) = name.get_ref().parse::<TerminalName>()
    {
        return wrong(name.span().start, format!("terminal_name: {error}"));
    }
    if let Some(passphrase) = config.passphrase.as_ref().filter(|_| config.key_file.is_some()) {
        return wrong(
            passphrase.span().start,
            "passphrase: there is a key_file already; remove one of \
        them"
                .into(),
        );
    }
    if let Some(keyless) = config
        .keyless
        .as_ref()
        .filter(|keyless| *keyless.get_ref() && (config.key_file.is_some() || config.passphrase.is_some()))
    {
        return wrong(keyless.span().start, "keyless: there is a key; remove one of them".into());
    }
    check_accepted(&config)?;
    for (place, interface) in config.interface.iter().enumerate() {
        let name = interface.name.get_ref();
        let at = interface.name.span().start;
        if name.is_empty() || name.len() > 15 {
            return wrong(at, format!("interface: '{name}' is not an interface name (1 to 15 bytes)"));
        }
        if config.interface[..place].iter().any(|other| other.name.get_ref() == name) {
            return wrong(at, format!("interface: '{name}' is listed twice"));
        }
        interface.radio()?;
    }
    Ok(config)
}

/// A second key requires a first one.
fn check_accepted(config: &ConfigFile) -> Result<(), Problem> {
    let file = config.accept_key_file.as_ref().map(|file| file.span().start);
    let words = config.accept_passphrase.as_ref().map(|words| words.span().start);
    if let (Some(at), true) = (words, file.is_some()) {
        return Err((
            Some(at),
            "accept_passphrase: there is an accept_key_file already; remove one of \
        them"
                .into(),
        ));
    }
    match file.or(words) {
        Some(at) if config.key_file.is_none() && config.passphrase.is_none() => {
            let what = "accept_key_file and accept_passphrase need a key to send with: key_file or \
            passphrase";
            Err((Some(at), what.into()))
        }
        _ => Ok(()),
    }
}

impl FileInterface {
    fn radio(&self) -> Result<Option<RadioConfig>, Problem> {
        radio(self.rate_mbps.as_ref(), self.aggregation.as_ref())
    }
}

/// A radio, from `rate_mbps` and `aggregation`.
pub(crate) fn radio(
    rate_mbps: Option<&Spanned<f64>>,
    aggregation: Option<&Spanned<String>>,
) -> Result<Option<RadioConfig>, Problem> {
    let (rate, aggregation) = match (rate_mbps, aggregation) {
        (None, None) => return Ok(None),
        (Some(rate), Some(aggregation)) => (rate, aggregation),
        (Some(rate), None) => {
            return Err((
                Some(rate.span().start),
                "rate_mbps: needs `aggregation`, too: none, ht or vht".into(),
            ));
        }
        (None, Some(aggregation)) => {
            return Err((Some(aggregation.span().start), "aggregation: needs `rate_mbps`, too".into()));
        }
    };
    if !(0.1..=100_000.0).contains(rate.get_ref()) {
        let what = format!("rate_mbps: {} is not from 0.1 to 100000", rate.get_ref());
        return Err((Some(rate.span().start), what));
    }
    let aggregation = match aggregation.get_ref().as_str() {
        "none" => Aggregation::None,
        "ht" => Aggregation::Ht,
        "vht" => Aggregation::Vht,
        other => {
            let what = format!("aggregation: '{other}' is not one of none, ht, vht");
            return Err((Some(aggregation.span().start), what));
        }
    };
    Ok(Some(RadioConfig { rate_mbps: *rate.get_ref(), aggregation }))
}

impl ConfigFile {
    /// Applies the settings of the file to `config`.
    pub fn apply(&self, config: &mut ShareConfig) {
        let PolicyConfig { name, objective, capacity_bps } = &mut config.policy;
        *name = self.policy.unwrap_or(*name);
        *objective = self.objective.unwrap_or(*objective);
        let set_bps = self.capacity_mbps.as_ref().map(|mbps| (mbps.get_ref() * 1e6) as u64);
        *capacity_bps = set_bps.or(*capacity_bps);
        if let Some(file) = &self.key_file {
            config.key = KeySource::File(file.clone());
        } else if let Some(words) = &self.passphrase {
            config.key = KeySource::Passphrase(words.get_ref().clone());
        } else if self.keyless.as_ref().is_some_and(|keyless| *keyless.get_ref()) {
            config.key = KeySource::Keyless;
        }
        if let Some(file) = &self.accept_key_file {
            config.accepts = Some(KeySource::File(file.get_ref().clone()));
        } else if let Some(words) = &self.accept_passphrase {
            config.accepts = Some(KeySource::Passphrase(words.get_ref().clone()));
        }
        config.notice_file = self.notice_file.clone().or(config.notice_file.take());
        if let Some(control) = &self.control {
            config.control_name.clone_from(control);
        }
        config.port = self.port.as_ref().map_or(config.port, |port| *port.get_ref());
        config.rank = self.rank.unwrap_or(config.rank);
        let name = self.terminal_name.as_ref().and_then(|name| name.get_ref().parse().ok());
        config.terminal_name = name.or(config.terminal_name);
        config.rendezvous = self.rendezvous.or(config.rendezvous);
        config.without_kernel = self.without_kernel.unwrap_or(config.without_kernel);
        let interfaces = self.interface.iter().map(|interface| InterfaceConfig {
            name: interface.name.get_ref().clone(),
            group: interface.group.as_deref().map(InterfaceConfig::group_named),
            rendezvous: interface.rendezvous,
            radio: interface.radio().ok().flatten(),
        });
        config.interfaces = interfaces.collect();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn problem(text: &str) -> String {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("share.toml");
        std::fs::write(&file, text).unwrap();
        let error = read_config(&file).unwrap_err().to_string();
        error.replace(&format!("{}/", folder.path().display()), "")
    }

    #[test]
    fn an_error_names_its_line_and_column() {
        let typo = problem("objective = \"balanced\"\npolcy = \"yuzuri\"\n");
        assert!(typo.starts_with("share.toml:2:1: unknown field `polcy`"), "{typo}");
        let typo = problem("[[interface]]\nname = \"wlan0\"\n  rate = 5\n");
        assert!(typo.starts_with("share.toml:3:3: unknown field `rate`"), "{typo}");
        let name = problem("terminal_name = \"caf\u{e9}\"\n");
        assert!(name.contains(":1:17: terminal_name:") && name.contains("printable ASCII"), "{name}");
        let value = problem("policy = \"fast\"\n");
        assert!(value.starts_with("share.toml:1:10: unknown variant `fast`"), "{value}");
        assert!(value.contains("hayakawa2015"), "{value}");
        let kind = problem("port = \"x\"\n");
        assert!(kind.starts_with("share.toml:1:8: invalid type"), "{kind}");
        let syntax = problem("port = \n");
        assert!(syntax.starts_with("share.toml:1:"), "{syntax}");
        let range = problem("\n[[interface]]\nname = \"a\"\nrate_mbps = 0\naggregation = \"ht\"\n");
        assert_eq!(range, "share.toml:4:13: rate_mbps: 0 is not from 0.1 to 100000");
        let half = problem("[[interface]]\nname = \"a\"\naggregation = \"ht\"\n");
        assert_eq!(half, "share.toml:3:15: aggregation: needs `rate_mbps`, too");
        let twice = problem("[[interface]]\nname = \"a\"\n[[interface]]\nname = \"a\"\n");
        assert_eq!(twice, "share.toml:4:8: interface: 'a' is listed twice");
        let both = problem("key_file = \"k\"\nkeyless = true\n");
        assert_eq!(both, "share.toml:2:11: keyless: there is a key; remove one of them");
        let alone = problem("accept_key_file = \"k\"\n");
        assert!(
            alone.starts_with("share.toml:1:19: accept_key_file and accept_passphrase need a key"),
            "{alone}"
        );
        let both = problem("key_file = \"k\"\naccept_key_file = \"k\"\naccept_passphrase = \"w\"\n");
        assert!(
            both.starts_with("share.toml:3:21: accept_passphrase: there is an accept_key_file"),
            "{both}"
        );
    }

    #[test]
    fn the_example_is_valid_with_and_without_its_comment_signs() {
        let example = include_str!("../../../packaging/share.toml");
        assert!(parse(example).is_ok());
        // The example has every setting commented out, without a space after `#`; alternatives are
        // marked `# instead`.
        let open = |line: &str| match line.strip_prefix('#') {
            Some(rest) if !rest.starts_with(' ') && !rest.contains("# instead") => rest.to_owned(),
            _ => line.to_owned(),
        };
        let opened: Vec<String> = example.lines().map(open).collect();
        let config = parse(&opened.join("\n")).unwrap();
        assert!(config.policy.is_some() && config.key_file.is_some() && config.interface.len() == 1);
        let mut settings = ShareConfig::default();
        config.apply(&mut settings);
        assert!(settings.interfaces[0].radio.is_some() && settings.interfaces[0].group.is_some());
    }
}
