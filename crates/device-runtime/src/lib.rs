//! Devices, streams, events, contexts, pools, routines and host residency over the Driver contract.
