//! Discovers which interfaces take part and which group is behind each, and sets which flows are
//! migrated.

use super::ControlLoop;
use crate::config::InterfaceConfig;
use crate::discover::{Interface, chosen};
use crate::error::ShareError;
use crate::event::Event;
use crate::link::{Link, with_defaults};
use std::net::SocketAddr;
use yuzuri_kernel::steer::{Prefix, Scope};
use yuzuri_policy::Moment;

impl ControlLoop {
    /// Updates the list of interfaces and their groups.
    pub(super) fn refresh_interfaces(&mut self, now: Moment) {
        let (mut problems, mut waits) = (Vec::new(), Vec::new());
        match self.discovery.interfaces() {
            Ok(all) => {
                let wanted = chosen(&self.config, &all);
                self.leave_others(now, &wanted);
                for (interface, config) in wanted {
                    if let Err(why) = self.take_part(now, interface, &config) {
                        let of = if why.is_wait() { &mut waits } else { &mut problems };
                        of.push(why.to_string());
                    }
                }
                self.leaders.retain(|(name, _)| self.links.iter().any(|link| link.interface.name == *name));
                self.set_scope(&mut problems);
            }
            Err(why) => problems.push(why.to_string()),
        }
        for problem in &problems {
            if !self.problems.contains(problem) {
                (self.report)(&Event::Problem(problem.clone()));
            }
        }
        self.problems = problems;
        for wait in &waits {
            if !self.waits.contains(wait) {
                (self.report)(&Event::Waits(wait.clone()));
            }
        }
        self.waits = waits;
    }

    /// Closes the links of interfaces that are gone or whose relay has changed.
    fn leave_others(&mut self, now: Moment, wanted: &[(Interface, InterfaceConfig)]) {
        let stays = |link: &Link| {
            wanted.iter().any(|(interface, config)| {
                (interface.index, &interface.name) == (link.interface.index, &link.interface.name)
                    && with_defaults(config, &self.config).rendezvous == link.config.rendezvous
            })
        };
        let (stay, gone): (Vec<Link>, Vec<Link>) =
            std::mem::take(&mut self.links).into_iter().partition(stays);
        self.links = stay;
        for mut link in gone {
            link.leave(now, &mut self.out);
            (self.report)(&Event::Gone { interface: link.interface.name.clone() });
        }
    }

    /// Opens or updates the link of an interface. Returns why that is not possible.
    fn take_part(
        &mut self,
        now: Moment,
        interface: Interface,
        config: &InterfaceConfig,
    ) -> Result<(), ShareError> {
        let config = with_defaults(config, &self.config);
        let station = self.discovery.station(&interface);
        let group = self.discovery.group(&interface, &config, station.as_ref());
        let bssid = station.as_ref().map(|station| station.bssid);
        let name = interface.name.clone();
        let known = self.links.iter().position(|link| link.interface.index == interface.index);
        let at = match known {
            Some(at) => {
                self.links[at].interface = interface;
                self.links[at].config = config;
                at
            }
            None => {
                self.links.push(Link::open(interface, config, self.config.policy, self.identity.port)?);
                self.links.len() - 1
            }
        };
        let link = &mut self.links[at];
        let configured = link.config.radio.map(|radio| radio.hint());
        link.radio = configured.or(station.map(|station| station.radio)).unwrap_or_default();
        if let Some(member) = &mut link.member {
            let leader = member.leading_access_point();
            let is_it = |at: &SocketAddr| self.discovery.is_access_point(&link.interface, bssid, at.ip());
            member.vouch(leader.filter(|(_, at)| is_it(at)).map(|(node, _)| node));
        }
        let Some((group, from)) = group else {
            return match (&link.member, link.interface.broadcasts) {
                // Keep the known group until another one is found.
                (Some(_), _) => Ok(()),
                (None, true) => Err(ShareError::NoGatewayYet { interface: name }),
                (None, false) => Err(ShareError::NoGroup { interface: name }),
            };
        };
        // The key of a passphrase is computed on another thread. Until it is ready the link is left
        // unchanged.
        let Some(keys) = self.keys.of(group) else { return Ok(()) };
        let is_news = link.set_group(now, (group, from), keys, &self.identity);
        if is_news.map_err(|error| ShareError::system(name.clone(), error))? {
            (self.report)(&Event::Joined { interface: name, group: group.to_string(), from });
        }
        Ok(())
    }

    /// Restricts migration to flows with a local address of these interfaces.
    fn set_scope(&mut self, problems: &mut Vec<String>) {
        let addresses = self.links.iter().flat_map(|link| &link.interface.addresses);
        let mut prefixes: Vec<Prefix> = addresses.map(|address| Prefix::host(*address)).collect();
        if prefixes.len() > Scope::MAX {
            problems.push(format!(
                "the interfaces have {} addresses; flows of the first {} are shared, the others are left alone",
                prefixes.len(),
                Scope::MAX
            ));
            prefixes.truncate(Scope::MAX);
        }
        let scope = Scope(prefixes);
        if self.scope.as_ref() == Some(&scope) {
            return;
        }
        match self.enforcer.set_scope(&scope) {
            Ok(()) => self.scope = Some(scope),
            Err(error) => problems.push(error.to_string()),
        }
    }
}
