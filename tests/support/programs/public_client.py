"""A job by IBM's public Python client from submission to the end. Run by that client's own Python.

The service and the token come from the environment, as the client documents. Prints the responses as JSON.
"""

import json
import sys
import time

from iaesdk import IbmAnalyticsEngineApiV3
from iaesdk.ibm_analytics_engine_api_v3 import (
    Application,
    ApplicationGetResponse,
    ApplicationGetStateResponse,
    ApplicationsPager,
    Instance,
    SparkHistoryServerResponse,
)

FINAL = {"finished", "failed", "stopped", "auto_terminated", "ops_terminated"}


def main(instance: str, details: dict, keys: dict, home: dict) -> None:
    client = IbmAnalyticsEngineApiV3.new_instance()
    responses = {"statuses": {}}

    def call(name: str, operation, **arguments):
        answer = operation(instance_id=instance, **arguments)
        responses["statuses"][name] = answer.get_status_code()
        return answer.get_result()

    Instance.from_dict(call("instance", client.get_instance))
    call("instance_state", client.get_instance_state)
    call("replace_defaults", client.replace_instance_default_configs, body={"spark.driver.cores": "1"})
    responses["defaults"] = call(
        "update_defaults", client.update_instance_default_configs, body={"spark.sql.shuffle.partitions": "3"}
    )
    responses["runtime"] = call("replace_runtime", client.replace_instance_default_runtime, spark_version="3.4")
    call("runtime", client.get_instance_default_runtime)
    responses["logs"] = call("replace_logs", client.replace_log_forwarding_config, enabled=True, tags=["nightly"])
    call("logs", client.get_log_forwarding_config)

    responses["statuses"]["create_logging"] = client.configure_platform_logging(instance, enable=True).get_status_code()
    responses["statuses"]["logging"] = client.get_logging_configuration(instance).get_status_code()
    responses["home"] = call("set_home", client.set_instance_home, **home)
    call("set_keys", client.update_instance_home_credentials, **keys)

    submitted = call("create", client.create_application, application_details=details)
    responses["id"] = submitted["id"]
    while True:
        state = call("state", client.get_application_state, application_id=submitted["id"])
        if state["state"] in FINAL:
            break
        responses["consumption"] = call("consumption", client.get_current_resource_consumption)
        time.sleep(0.5)
    ApplicationGetStateResponse.from_dict(state)
    responses["state"] = state
    responses["application"] = call("show", client.get_application, application_id=submitted["id"])
    ApplicationGetResponse.from_dict(responses["application"])
    responses["limits"] = call("limits", client.get_resource_consumption_limits)

    call("stop", client.delete_application, application_id=submitted["id"])
    call("stop_again", client.delete_application, application_id=submitted["id"])
    second = client.create_application(instance_id=instance, application_details=details).get_result()
    client.delete_application(instance_id=instance, application_id=second["id"])
    responses["second"] = second["id"]

    responses["history"] = call("create_history", client.start_spark_history_server)
    SparkHistoryServerResponse.from_dict(call("history", client.get_spark_history_server))
    call("stop_history", client.stop_spark_history_server)

    pager = ApplicationsPager(
        client=client, instance_id=instance, limit=1, submission_time_interval="BEGINNING,CURRENT"
    )
    responses["listed"] = [Application.from_dict(entry).id for entry in pager.get_all()]
    try:
        client.get_application(instance_id=instance, application_id="app-that-is-none")
    except Exception as error:
        responses["error"] = [type(error).__name__, error.status_code, error.message]
    print(json.dumps(responses))


if __name__ == "__main__":
    main(sys.argv[1], **json.load(sys.stdin))
