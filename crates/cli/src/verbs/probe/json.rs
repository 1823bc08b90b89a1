//! Conclusions as JSON.

use alluvium_base::DeviceProfile;
use alluvium_base::cost::AccessKind;
use alluvium_base::measurements::{
    DeviceMeasurements, IssueMode, Medium, OffsetOrder, ProbeSample, TransferSlice,
};
use alluvium_model::fit::FitQuality;
use alluvium_model::probe::{DeviceAdvice, DeviceParallelism, ProbeConclusions, RequestCosts, SHARES};
use serde_json::{Map, Value, json};
use std::path::Path;

/// Returns all conclusions and all samples of a measurement as JSON.
pub(super) fn of(path: &Path, measured: &DeviceMeasurements, conclusions: &ProbeConclusions) -> Value {
    let processor = conclusions.processor;
    json!({
        "path": path.display().to_string(),
        "began_s": measured.began_s,
        "file_system": measured.file_system,
        "medium": match measured.medium {
            Medium::Device => "device",
            Medium::PageCache => "page cache",
            Medium::Memory => "memory",
            Medium::Network => "network",
        },
        "file_bytes": measured.span_bytes,
        "elapsed_s": measured.elapsed_ns as f64 / 1e9,
        "reads": costs(&conclusions.reads),
        "writes": costs(&conclusions.writes),
        "sync": conclusions.sync.map(|sync| json!({
            "count": sync.count,
            "median_us": sync.median_ns as f64 / 1e3,
            "nine_of_ten_us": sync.most_ns as f64 / 1e3,
        })),
        "processor": {
            "alone_ns": processor.alone_ns,
            "batched_ns": processor.batched_ns,
            "batch": processor.batch,
        },
        "advice": conclusions.advice.map(|advice| of_advice(&advice)),
        "profile": conclusions.profile.map(|profile| of_profile(&profile)),
        "is_reliable": conclusions.reliable_profile().is_ok(),
        "warnings": conclusions.warnings.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": measured.notes,
        "samples": measured.samples.iter().map(window).collect::<Vec<_>>(),
        "filled": slices(&measured.filled),
        "sustained": slices(&measured.sustained),
    })
}

fn of_profile(profile: &DeviceProfile) -> Value {
    json!({
        "setup_ns": profile.setup_ns,
        "byte_ps": profile.byte_ps,
        "parallelism": profile.parallelism,
        "io_cpu_ns": profile.io_cpu_ns,
        "half_bandwidth_bytes": profile.half_bandwidth(),
    })
}

fn of_advice(advice: &DeviceAdvice) -> Value {
    json!({
        "page_bytes": advice.page_bytes,
        "read_ahead_bytes": advice.read_ahead_bytes,
        "depth": advice.depth,
        "b_tree_node_bytes": advice.b_tree_node_bytes,
        "buffered_node_bytes": advice.buffered_node_bytes,
    })
}

fn goodness(of: &FitQuality, unit: &str) -> Value {
    let mut value = Map::new();
    value.insert("r_squared".to_owned(), json!(of.r_squared));
    value.insert(format!("rms_{unit}"), json!(of.rms));
    value.insert("worst_relative".to_owned(), json!(of.worst_relative));
    Value::Object(value)
}

fn costs(costs: &RequestCosts) -> Value {
    let affine = match &costs.affine {
        Err(why) => json!({ "error": why.to_string() }),
        Ok(fitted) => {
            let fit = fitted.fit;
            json!({
                "setup_s": fit.setup_s,
                "per_byte_s": fit.per_byte_s,
                "alpha_per_4_kib": fit.alpha(4096),
                "fit": goodness(&fit.goodness, "s"),
                "fit_of_seconds": fitted.plain.map(|plain| goodness(&plain, "s")),
                "natural_bytes": SHARES.map(|share| json!({
                    "share": share,
                    "bytes": fit.natural_bytes(share).round(),
                })),
            })
        }
    };
    let parallel = match &costs.parallel {
        Err(why) => json!({ "error": why.to_string() }),
        Ok(fit) => json!({
            "knee": fit.parallelism,
            "per_request_mib_s": fit.per_request,
            "plateau_mib_s": fit.plateau,
            "fit": goodness(&fit.goodness, "mib_s"),
            "worst_time": fit.worst_time,
            "worst_time_of_dam": fit.worst_time_dam,
        }),
    };
    let parallelism = match costs.parallelism {
        DeviceParallelism::Unknown => Value::Null,
        DeviceParallelism::One => json!(1),
        DeviceParallelism::Knee(knee) => json!(knee),
        DeviceParallelism::Beyond(depth) => json!({ "at_least": depth }),
    };
    json!({
        "affine": affine,
        "pdam": parallel,
        "parallelism": parallelism,
        "gain": costs.gain.map(|gain| json!({
            "times": gain.times,
            "worst_time": gain.worst_time,
        })),
        "parallelism_interval": costs.parallelism_interval().map(|(low, high)| [low, high]),
        "in_order": costs.in_order.iter().map(|(bytes, rate)| {
            json!({ "bytes": bytes, "bytes_per_s": rate })
        }).collect::<Vec<_>>(),
        "random_4_kib": costs.small.iter().map(|(depth, rate)| {
            json!({ "depth": depth, "requests_per_s": rate / 4096.0 })
        }).collect::<Vec<_>>(),
    })
}

fn window(window: &ProbeSample) -> Value {
    let point = window.point;
    json!({
        "kind": match point.kind {
            AccessKind::Read => "read",
            AccessKind::Write => "write",
        },
        "order": match point.order {
            OffsetOrder::Random => "random",
            OffsetOrder::Sequential => "sequential",
            OffsetOrder::Near => "near",
        },
        "issue": match point.issue {
            IssueMode::Steady => "steady",
            IssueMode::Batch => "batch",
        },
        "bytes": point.bytes,
        "depth": point.depth,
        "round": window.round,
        "requests": window.requests,
        "elapsed_ns": window.elapsed_ns,
        "cpu_ns": window.cpu_ns,
        "typical_ns": window.typical_ns,
    })
}

fn slices(slices: &[TransferSlice]) -> Vec<f64> {
    slices.iter().map(TransferSlice::bytes_per_s).collect()
}
