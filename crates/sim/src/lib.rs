//! Simulation: operation generator, reference model, crash driver, shrinker. It knows contracts, not engines.
