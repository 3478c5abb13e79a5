"""Types of the JSON data that the controller and its workers exchange. The controller checks what
it sends; which fields there are, docs/formats.md says, and whoever reads them."""

from typing import Any, Dict, Mapping

Json = Dict[str, Any]
Config = Mapping[str, Any]  # of a run, or a section of one
Job = Mapping[str, Any]  # what a worker is to do (`workers.job_of`)
Event = Json  # what a worker reports; its name is ``event``
Card = Mapping[str, Any]  # a GPU: ``name``, ``uuid``, ``bus``, and the ``further`` ones of a run
Planned = Mapping[str, Any]  # a run or a certificate of a plan
