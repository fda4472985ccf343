"""A short conversation through every part of the protocol, which setup has with a freshly compiled oracle.

Invariant: each line is answered by one `quiet`; the classes that it touches are those that any script touches.
"""

from __future__ import annotations

__all__ = ["REHEARSAL"]

_RETRY = '{"strategy":"exponential","max_retries":2,"initial_ms":5,"max_ms":50,"multiplier":2,"on":["empty","error"]}'

REHEARSAL = f"""\
{{"cmd":"hello","protocol":1}}
{{"cmd":"nonsense"}}
{{"cmd":"open","now":0,"restore":null,"config":{{"mode":"ordered","capacity":1,"timeout_ms":100}}}}
{{"cmd":"element","value":"a","ts":1}}
{{"cmd":"watermark","ts":1}}
{{"cmd":"snapshot","id":1}}
{{"cmd":"complete","call":1,"results":["A",{{"n":1.5}}]}}
{{"cmd":"marker","id":1}}
{{"cmd":"element","value":[2],"ts":null,"hold":true}}
{{"cmd":"advance","to":100}}
{{"cmd":"stats"}}
{{"cmd":"close"}}
{{"cmd":"open","now":0,"restore":null,"config":{{"mode":"unordered","capacity":9,"timeout_ms":100,\
"on_timeout":{{"results":[]}},"profile":"flink","retry":{_RETRY}}}}}
{{"cmd":"element","value":1,"ts":1}}
{{"cmd":"watermark","ts":1}}
{{"cmd":"element","value":2,"ts":2}}
{{"cmd":"fail","call":1,"error":"no"}}
{{"cmd":"complete","call":2,"results":[]}}
{{"cmd":"advance","to":10}}
{{"cmd":"snapshot","id":2}}
{{"cmd":"notify","id":2,"outcome":"complete"}}
{{"cmd":"advance","to":100}}
{{"cmd":"end_input"}}
{{"cmd":"close"}}
"""
