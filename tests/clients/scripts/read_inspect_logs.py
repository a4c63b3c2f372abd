"""Reads a folder of logs with Inspect's own reader and prints what it found as JSON."""

import json
import sys

from inspect_ai.log import list_eval_logs, read_eval_log, read_eval_log_sample_summaries

logs = []
for place in list_eval_logs(sys.argv[1]):
    header = read_eval_log(place, header_only=True)
    log = read_eval_log(place)
    logs.append(
        {
            "task": log.eval.task,
            "header_task": header.eval.task,
            "run_id": log.eval.run_id,
            "model": log.eval.model,
            "status": log.status,
            "metrics": {
                name: metric.value
                for score in header.results.scores
                for name, metric in score.metrics.items()
            },
            "summaries": len(read_eval_log_sample_summaries(place)),
            "samples": [
                {
                    "id": sample.id,
                    "epoch": sample.epoch,
                    "uuid": sample.uuid,
                    "score": sample.scores["return"].value if "return" in sample.scores else None,
                    "roles": [message.role for message in sample.messages],
                    "texts": [message.text for message in sample.messages],
                    "reasoning": [
                        part.reasoning
                        for message in sample.messages
                        if isinstance(message.content, list)
                        for part in message.content
                        if part.type == "reasoning"
                    ],
                    "images": sum(
                        part.type == "image"
                        for message in sample.messages
                        if isinstance(message.content, list)
                        for part in message.content
                    ),
                    "calls": [
                        [call.function for call in message.tool_calls or []]
                        for message in sample.messages
                        if message.role == "assistant"
                    ],
                    "errors": [
                        message.error.type
                        for message in sample.messages
                        if message.role == "tool" and message.error
                    ],
                    "error": None if sample.error is None else sample.error.message,
                    "events": [event.event for event in sample.events],
                    "rewards": [event.metadata["reward"] for event in sample.events if event.event == "tool"],
                }
                for sample in log.samples
            ],
        }
    )
sys.stdout.write(json.dumps(logs))
