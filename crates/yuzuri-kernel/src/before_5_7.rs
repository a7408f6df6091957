//! Congestion controls as in Linux before 5.7, when they counted ACKs instead of acknowledged
//! segments. The lab uses them to capture senders with an older kernel.

use crate::control::{ControlError, available, ends_with_link, jiffies};
use crate::features::with_log;
use crate::skel::before_5_7::{Before57Skel, Before57SkelBuilder};
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use std::mem::MaybeUninit;

/// Their names in the kernel's list, as in `bpf/before_5_7.bpf.c`.
pub const NAMES: [&str; 4] = ["bic_5_6", "scalable_5_6", "veno_5_6", "yeah_5_6"];

/// Registered congestion controls. Dropping it unregisters them.
pub struct Before57 {
    // Before `_skel`: dropping the link ends the registration.
    _links: Vec<libbpf_rs::Link>,
    _skel: Before57Skel<'static>,
}

impl Before57 {
    /// Registers the given congestion controls of [`NAMES`].
    ///
    /// # Errors
    /// If a name is taken, privilege is missing, or the kernel's registrations do not end with
    /// their link (before 6.4).
    pub fn register(wanted: &[&str]) -> Result<Before57, ControlError> {
        if let Some(taken) = available().into_iter().find(|name| wanted.contains(&name.as_str())) {
            return Err(ControlError::Taken(taken));
        }
        if !ends_with_link() {
            return Err(ControlError::Outlasts);
        }
        // As in Monitor::start.
        let object = Box::leak(Box::new(MaybeUninit::uninit()));
        let mut open = with_log("opening the BPF object", || Before57SkelBuilder::default().open(object))?;
        if let Some(settings) = open.maps.rodata_data.as_deref_mut() {
            settings.hz = jiffies::per_second()?;
        }
        let mut skel = with_log("loading the former congestion controls", || open.load())?;
        let maps = &mut skel.maps;
        let links = NAMES
            .into_iter()
            .zip([&mut maps.bic, &mut maps.scalable, &mut maps.veno, &mut maps.yeah])
            .filter(|(name, _)| wanted.contains(name))
            .map(|(name, map)| with_log(name, || map.attach_struct_ops()))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(Before57 { _links: links, _skel: skel })
    }
}
